import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.api.redisnode.RedisNode;
import org.redisson.api.redisnode.RedisNodes;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.TransportMode;

/** Measures Redisson's RDelayedQueue with the jobs, the clock and the JSON of ../README.md. */
public final class Driver {
  private static final int SENDERS = 8;
  private static final int IN_FLIGHT = 500;
  private static final int PER_SECOND = 1000;
  private static final long HOUR_MS = 3_600_000;

  private final RedissonClient redisson;
  private final int count;
  private final int bytes;
  private final int repeat;
  private final int seconds;
  private int queues;

  private interface Measure {
    double rate(String queue) throws Exception;
  }

  private interface Worker {
    /** Takes and handles messages; returns after a second without one. */
    void step(RBlockingQueue<String> ready, Arrivals arrivals) throws InterruptedException;
  }

  /** A running worker; its RDelayedQueue object moves due messages. */
  private record Running(RDelayedQueue<String> delayed, ExecutorService threads, AtomicInteger stop) {
    void close() throws InterruptedException {
      stop.set(1);
      threads.shutdown();
      threads.awaitTermination(5, TimeUnit.SECONDS);
      delayed.destroy();
    }
  }

  private Driver(RedissonClient redisson, Map<String, String> given) {
    this.redisson = redisson;
    count = Integer.parseInt(given.getOrDefault("count", "50000"));
    bytes = Integer.parseInt(given.getOrDefault("bytes", "64"));
    repeat = Integer.parseInt(given.getOrDefault("repeat", "3"));
    seconds = Integer.parseInt(given.getOrDefault("seconds", "10"));
    if (count < 1 || bytes < 24 || repeat < 1 || seconds < 1) {
      throw new IllegalArgumentException("count, repeat and seconds must be at least 1, bytes at least 24");
    }
  }

  private static void say(String text) {
    System.err.println("  " + text);
  }

  private RBlockingQueue<String> ready(String queue) {
    return redisson.getBlockingQueue(queue, StringCodec.INSTANCE);
  }

  private RDelayedQueue<String> delayed(String queue) {
    return redisson.getDelayedQueue(ready(queue));
  }

  private String message(int number, long delayMs) {
    return Arrivals.payload(Arrivals.nowMicros() + delayMs * 1000, number, bytes);
  }

  /** One offer after the other in each thread. Returns messages a second. */
  private double sendAll(RDelayedQueue<String> to, int n, int threads, long delayMs) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    AtomicInteger next = new AtomicInteger();
    long start = System.nanoTime();
    for (int t = 0; t < threads; t++) {
      pool.execute(() -> {
        for (int i = next.getAndIncrement(); i < n; i = next.getAndIncrement()) {
          to.offer(message(i, delayMs), delayMs, TimeUnit.MILLISECONDS);
        }
      });
    }
    pool.shutdown();
    pool.awaitTermination(5, TimeUnit.MINUTES);
    return n * 1e9 / (System.nanoTime() - start);
  }

  /** RBatch does not support delayed queues, so this uses many concurrent offerAsync() calls. */
  private double sendAsync(RDelayedQueue<String> to, int n, long delayMs) {
    long start = System.nanoTime();
    for (int first = 0; first < n; first += IN_FLIGHT) {
      CompletableFuture<?>[] sends = new CompletableFuture<?>[Math.min(IN_FLIGHT, n - first)];
      for (int i = 0; i < sends.length; i++) {
        sends[i] = to.offerAsync(message(first + i, delayMs), delayMs, TimeUnit.MILLISECONDS).toCompletableFuture();
      }
      CompletableFuture.allOf(sends).join();
    }
    return n * 1e9 / (System.nanoTime() - start);
  }

  private static void takeOne(RBlockingQueue<String> ready, Arrivals arrivals) throws InterruptedException {
    String payload = ready.poll(1, TimeUnit.SECONDS);
    if (payload != null) {
      arrivals.handle(payload);
    }
  }

  private static void takeMany(RBlockingQueue<String> ready, Arrivals arrivals) throws InterruptedException {
    takeOne(ready, arrivals);
    for (List<String> all = ready.poll(IN_FLIGHT); !all.isEmpty(); all = ready.poll(IN_FLIGHT)) {
      all.forEach(arrivals::handle);
    }
  }

  private Running start(String queue, int threads, Worker worker, Arrivals arrivals) {
    AtomicInteger stop = new AtomicInteger();
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    RDelayedQueue<String> delayed = delayed(queue);
    for (int t = 0; t < threads; t++) {
      pool.execute(() -> {
        RBlockingQueue<String> ready = ready(queue);
        try {
          while (stop.get() == 0 && !arrivals.complete()) {
            worker.step(ready, arrivals);
          }
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
        }
      });
    }
    return new Running(delayed, pool, stop);
  }

  /** Sends messages that stay in the delayed queue until a worker starts, and returns when all of them are due. */
  private void sendScheduled(String queue, int n) throws Exception {
    long delayMs = 1000 + n / 10;
    RDelayedQueue<String> sender = delayed(queue);
    sendAsync(sender, n, delayMs);
    sender.destroy(); // or it would move them already
    Thread.sleep(delayMs + 1);
    if (!ready(queue).isEmpty()) {
      throw new IllegalStateException("receive: messages were moved before the worker started");
    }
  }

  /** Sends messages that are due at once, and returns when the library has moved all of them to the blocking queue. */
  private void sendDue(String queue, int n) throws Exception {
    RDelayedQueue<String> sender = delayed(queue);
    sendAsync(sender, n, 0);
    long start = System.nanoTime();
    while (ready(queue).size() < n) {
      if (System.nanoTime() - start > TimeUnit.MINUTES.toNanos(2)) {
        throw new IllegalStateException("receive: not all messages were moved within two minutes");
      }
      Thread.sleep(10);
    }
    sender.destroy();
  }

  /** The rate from the start of the worker, with a backlog of due messages, to the last of them. */
  private double receive(String queue, int n, boolean scheduled, int threads, Worker worker) throws Exception {
    if (scheduled) {
      sendScheduled(queue, n);
    } else {
      sendDue(queue, n);
    }
    Arrivals arrivals = new Arrivals(n);
    long begin = System.nanoTime();
    Running running = start(queue, threads, worker, arrivals);
    double rate = n * 1e9 / (arrivals.await() - begin);
    running.close();
    return rate;
  }

  private double endToEnd(String queue, int n) throws Exception {
    Arrivals arrivals = new Arrivals(n);
    Running running = start(queue, 1, Driver::takeMany, arrivals);
    long begin = System.nanoTime();
    sendAsync(running.delayed, n, 0);
    double rate = n * 1e9 / (arrivals.await() - begin);
    running.close();
    return rate;
  }

  /** One message is due each millisecond. All are sent before the first is due, then the worker starts. */
  private double[] lateness(int n) throws Exception {
    String queue = "late" + ++queues;
    RDelayedQueue<String> sender = delayed(queue);
    long first = System.currentTimeMillis() + 500 + n / 5;
    for (int from = 0; from < n; from += IN_FLIGHT) {
      CompletableFuture<?>[] sends = new CompletableFuture<?>[Math.min(IN_FLIGHT, n - from)];
      for (int i = 0; i < sends.length; i++) {
        long due = first + (from + i) * 1000L / PER_SECOND;
        String payload = Arrivals.payload(due * 1000, from + i, bytes);
        long delay = due - System.currentTimeMillis();
        sends[i] = sender.offerAsync(payload, delay, TimeUnit.MILLISECONDS).toCompletableFuture();
      }
      CompletableFuture.allOf(sends).join();
    }
    if (System.currentTimeMillis() > first) {
      throw new IllegalStateException("lateness: sending took longer than it may");
    }
    Arrivals arrivals = new Arrivals(n);
    Running running = start(queue, 4, Driver::takeOne, arrivals);
    sender.destroy(); // the worker has its own
    arrivals.await();
    running.close();
    return arrivals.lateness();
  }

  /** The median of each percentile, as JSON. */
  private String medianLateness() throws Exception {
    double[][] values = new double[4][repeat];
    for (int i = 0; i < repeat; i++) {
      double[] four = lateness(seconds * PER_SECOND);
      for (int k = 0; k < four.length; k++) {
        values[k][i] = four[k];
      }
    }
    for (double[] of : values) {
      Arrays.sort(of);
    }
    int middle = (repeat - 1) / 2;
    String form = "{\"min\":%.2f,\"p50\":%.2f,\"p99\":%.2f,\"max\":%.2f}";
    return String.format(form, values[0][middle], values[1][middle], values[2][middle], values[3][middle]);
  }

  private String oneThread() throws Exception {
    return median(q -> sendAll(delayed(q), count, 1, HOUR_MS));
  }

  private String median(Measure measure) throws Exception {
    double[] rates = new double[repeat];
    for (int i = 0; i < repeat; i++) {
      rates[i] = measure.rate("bench" + ++queues);
    }
    Arrays.sort(rates);
    return Long.toString((long) rates[(repeat - 1) / 2]);
  }

  private long usedMemory() {
    return Long.parseLong(
        redisson.getRedisNodes(RedisNodes.SINGLE).getInstance().info(RedisNode.InfoSection.MEMORY).get("used_memory"));
  }

  private double memory(int n) {
    sendAsync(delayed("memory"), 1, HOUR_MS); // loads scripts, and is not counted
    long before = usedMemory();
    sendAsync(delayed("memory"), n, HOUR_MS);
    return (usedMemory() - before) / (double) n;
  }

  private void warmUp() throws Exception {
    for (int i = 0; i < 3; i++) {
      sendAsync(delayed("warm-send"), 20000, HOUR_MS);
      sendAll(delayed("warm-send"), 10000, SENDERS, HOUR_MS);
    }
    for (int i = 0; i < 2; i++) {
      receive("warm", 20000, i == 0, 8, Driver::takeOne);
      receive("warm", 20000, i == 0, 1, Driver::takeMany);
    }
    lateness(PER_SECOND);
  }

  /** The rates of all ways to receive, as members of a JSON object. */
  private String receives(String form, boolean scheduled) throws Exception {
    return String.format(
        "\"%1$sone_worker\":%2$s,\"%1$seight_workers\":%3$s,\"%1$spoll_500\":%4$s", form,
        median(q -> receive(q, count, scheduled, 1, Driver::takeOne)),
        median(q -> receive(q, count, scheduled, 8, Driver::takeOne)),
        median(q -> receive(q, count, scheduled, 1, Driver::takeMany)));
  }

  private void run() throws Exception {
    say("warm-up");
    warmUp();
    String send = "{\"one_thread\":" + oneThread()
        + ",\"eight_threads\":" + median(q -> sendAll(delayed(q), count, SENDERS, HOUR_MS))
        + ",\"async_500\":" + median(q -> sendAsync(delayed(q), count, HOUR_MS)) + "}";
    say("sent " + send);
    String receive = "{" + receives("due_", false) + "," + receives("scheduled_", true) + "}";
    say("received " + receive);
    String both = median(q -> endToEnd(q, count));
    say("lateness");
    System.out.println(String.format(
        "{\"version\":\"4.7.0\",\"transport\":\"unix\",\"send\":%s,\"receive\":%s,\"end_to_end\":%s,\"lateness_ms\":%s,"
            + "\"settles\":0}",
        send, receive, both, medianLateness()));
  }

  public static void main(String[] args) throws Exception {
    Locale.setDefault(Locale.ROOT);
    Map<String, String> given = new HashMap<>();
    for (int i = 0; i < args.length; i++) {
      boolean flag = args[i].equals("--idle") || args[i].equals("--one-thread");
      if (!args[i].startsWith("--") || (!flag && i + 1 == args.length)) {
        throw new IllegalArgumentException("not an option with a value: " + args[i]);
      }
      given.put(args[i].substring(2), flag ? "" : args[++i]);
    }
    if (!given.containsKey("socket")) {
      System.err.println(
          "usage: --socket PATH [--count N] [--bytes N] [--repeat N] [--seconds N]"
              + " [--idle | --memory N | --one-thread]");
      System.exit(2);
    }
    Config config = new Config();
    config.setTransportMode(TransportMode.EPOLL);
    config.useSingleServer().setAddress("redis+uds://" + given.get("socket"));
    RedissonClient redisson = Redisson.create(config);
    Driver driver = new Driver(redisson, given);
    if (given.containsKey("idle")) {
      driver.start("idle", 1, (ready, arrivals) -> ready.take(), new Arrivals(1));
      System.out.println("idle");
      Thread.sleep(HOUR_MS);
    }
    if (given.containsKey("memory")) {
      System.out.println(String.format("%.2f", driver.memory(Integer.parseInt(given.get("memory")))));
    } else if (given.containsKey("one-thread")) {
      driver.sendAll(driver.delayed("warm-send"), 30000, 1, HOUR_MS);
      System.out.println(driver.oneThread());
    } else {
      driver.run();
    }
    redisson.shutdown();
  }
}
