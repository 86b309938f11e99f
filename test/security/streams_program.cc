// Uses one class of the library while some standard streams are closed, and prints text that Redis would execute.
//   streams_program KIND URL QUEUE REPORT
// Writes to REPORT which of the descriptors 0 to 2 the library has opened.
#include <delayqueue/delayqueue.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;
using namespace delayqueue;

constexpr char kCommand[] = "DEL canary\r\n";

using Links = std::array<std::string, 3>;

Links links() {
  Links found;
  for (std::size_t fd = 0; fd < found.size(); ++fd) {
    char to[256];
    const auto size = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), to, sizeof to);
    found[fd] = size < 0 ? "closed" : std::string(to, static_cast<std::size_t>(size));
  }
  return found;
}

const Links at_start = links();
std::mutex mutex;  // guards `wrong`
std::string wrong;

// Prints to every standard stream, then compares the descriptors 0 to 2 with those at the start.
void print(const std::string& when) {
  std::cout << kCommand << std::flush;
  std::cerr << kCommand << std::flush;
  for (const int fd : {0, 1, 2}) [[maybe_unused]] const auto written = ::write(fd, kCommand, sizeof kCommand - 1);
  const Links now = links();
  const std::lock_guard lock(mutex);
  for (std::size_t fd = 0; fd < now.size(); ++fd) {
    if (now[fd] != at_start[fd]) wrong += when + ": descriptor " + std::to_string(fd) + " is " + now[fd] + "\n";
  }
}

void produce(const std::string& url, const std::string& queue) {
  Producer producer(url, queue);
  print("Producer made");
  const std::string id = producer.send(kCommand).id;
  print("sent");
  producer.send_batch({kCommand, kCommand});
  auto future = producer.send_async(kCommand);
  print("sending");
  future.get();
  print("sent by another thread");
  static_cast<void>(producer.cancel(id));
  print("cancelled");
}

void consume(const std::string& url, const std::string& queue) {
  Producer(url, queue).send(kCommand);
  std::atomic<bool> handled{false};
  ConsumerOptions options;
  options.concurrency = 2;
  options.logger = [](const LogEntry&) { print("logged"); };
  const auto handler = [&](const Message& message) {
    std::cout << message.payload() << std::flush;
    print("handled");
    handled = true;
    return ack();
  };
  Consumer consumer(url, queue, handler, options);
  print("Consumer made");
  consumer.start();
  print("started");
  while (!handled) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);  // the consumer opens its second connection, for wake-ups
  print("idle");
  static_cast<void>(consumer.stop(10s));
  print("stopped");
}

void inspect(const std::string& url, const std::string& queue) {
  const std::string id = Producer(url, queue).send(kCommand).id;
  Inspector inspector(url, queue);
  print("Inspector made");
  static_cast<void>(inspector.counts());
  print("counted");
  static_cast<void>(inspector.find(id));
  static_cast<void>(inspector.next_event(1ms));
  print("subscribed");
  QueueAdmin admin(url, queue);
  print("QueueAdmin made");
  static_cast<void>(admin.check());
  print("checked");
}

void own_server(const std::string&, const std::string& queue) {
  PrivateServer server;
  print("PrivateServer made");
  produce(server.url(), queue);
  server.restart();
  print("restarted");
  server.stop();
  print("stopped");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::string kind = argv[1];
  try {
    if (kind == "Producer") produce(argv[2], argv[3]);
    if (kind == "Consumer") consume(argv[2], argv[3]);
    if (kind == "Inspector") inspect(argv[2], argv[3]);
    if (kind == "PrivateServer") own_server(argv[2], argv[3]);
    if (kind == "embedded:") produce("embedded:", argv[3]);
  } catch (const std::exception& e) {
    wrong += std::string("threw: ") + e.what() + "\n";
  }
  std::ofstream(argv[4]) << wrong;
  return wrong.empty() ? 0 : 1;
}
