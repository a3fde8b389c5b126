#pragma once
#define PAGE_SIZE 4096
