"""What the kernel does with an instruction, found out by trying."""
