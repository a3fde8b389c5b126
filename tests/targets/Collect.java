/** Collect N: asks the JVM for N collections, and prints how many were asked for. */
public final class Collect {
  public static void main(String[] args) {
    int count = Integer.parseInt(args[0]);
    for (int i = 0; i < count; i++) {
      System.gc();
    }
    System.out.println(count);
  }
}
