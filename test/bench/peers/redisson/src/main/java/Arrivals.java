import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;

/** Records the first delivery of each message, and the time when all have arrived. */
final class Arrivals {
  private static final long OFFSET = 3_600_000_000L; // so that zero is "not yet"

  private final AtomicLongArray late;
  private final CountDownLatch left;
  private volatile long lastNanos;

  Arrivals(int count) {
    late = new AtomicLongArray(count);
    left = new CountDownLatch(count);
  }

  static long nowMicros() {
    return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
  }

  /** The payload: the due time in microseconds and the number of the message. */
  static String payload(long dueMicros, int number, int bytes) {
    String head = String.format("%016d%08d", dueMicros, number);
    return head + "x".repeat(bytes - head.length());
  }

  void handle(String payload) {
    long due = Long.parseLong(payload.substring(0, 16));
    int number = Integer.parseInt(payload.substring(16, 24));
    if (late.compareAndSet(number, 0, nowMicros() - due + OFFSET)) {
      lastNanos = System.nanoTime();
      left.countDown();
    }
  }

  boolean complete() {
    return left.getCount() == 0;
  }

  /** Returns the time of the last message, by System.nanoTime(). */
  long await() throws InterruptedException {
    if (!left.await(2, TimeUnit.MINUTES)) {
      String missing = left.getCount() + " of " + late.length();
      throw new IllegalStateException(missing + " messages did not come within two minutes");
    }
    return lastNanos;
  }

  /** In ms: the least, p50, p99 and the most. */
  double[] lateness() {
    double[] ms = new double[late.length()];
    for (int i = 0; i < ms.length; i++) {
      ms[i] = (late.get(i) - OFFSET) / 1000.0;
    }
    Arrays.sort(ms);
    int n = ms.length;
    return new double[] {ms[0], ms[(n - 1) / 2], ms[(n - 1) * 99 / 100], ms[n - 1]};
  }
}
