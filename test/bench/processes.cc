#include "bench/processes.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/child.h"
#include "bench/jobs.h"
#include "bench/part.h"
#include "bench/schedule.h"
#include "os/resources.h"
#include "store/keys.h"

namespace bench {
namespace {

using namespace delayqueue;
using std::chrono::system_clock;

constexpr std::chrono::minutes kPatience{3};

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("processes: " + reason(errno));
    from = Descriptor(ends[0]);
    to = Descriptor(ends[1]);
  }

  Descriptor from, to;
};

// A child process that consumes. The destructor ends it.
class Worker {
 public:
  explicit Worker(const std::string& url)
      : pid_(spawn({"/proc/self/exe", "--consume", url}, input_.from.get(), output_.to.get())) {
    input_.from = Descriptor();
    output_.to = Descriptor();
  }
  ~Worker() {
    input_.to = Descriptor();
    ::waitpid(pid_, nullptr, 0);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void await_connected() const {
    char line = 0;
    if (::read(output_.from.get(), &line, 1) != 1)
      throw std::runtime_error("processes: a consumer process ended before it was connected");
  }

 private:
  Pipe input_, output_;
  const pid_t pid_;
};

void await_all_settled(Server& server) {
  const std::string count = store::make_keys(kQueue, {}).count;
  const auto limit = Clock::now() + kPatience;
  while (server.command({"HLEN", count}) != "0") {
    if (Clock::now() > limit) throw std::runtime_error("processes: not all messages were delivered in time");
    std::this_thread::sleep_for(milliseconds(2));
  }
}

void measure(Bench& bench, std::size_t processes) {
  const std::string name = "processes." + std::to_string(processes);
  bench.progress.step(name);
  bench.server.flush();
  std::list<Worker> workers;
  for (std::size_t i = 0; i < processes; ++i) workers.emplace_back(bench.server.url());
  for (const Worker& worker : workers) worker.await_connected();
  const std::size_t messages = bench.scale.variant;
  const DueTimes due = send_schedule(bench, {messages, static_cast<double>(messages)});
  std::this_thread::sleep_until(due.first);
  await_all_settled(bench.server);
  const std::chrono::duration<double> took = system_clock::now() - due.first;
  bench.figures.add(name + ".receive", static_cast<double>(messages) / took.count());
}

}  // namespace

void processes(Bench& bench) {
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const std::size_t count : {1, 2, 4}) measure(bench, count);
  }
}

int consume(const std::string& url) {
  try {
    ConsumerOptions eight;
    eight.concurrency = 8;
    Consumer consumer(
        url, kQueue, [](const Message&) { return ack(); }, eight);
    consumer.start();
    while (!consumer.metrics().stats.connected) std::this_thread::sleep_for(milliseconds(1));
    std::puts("connected");
    std::fflush(stdout);
    char ignored = 0;
    while (::read(STDIN_FILENO, &ignored, 1) > 0) {
    }
    static_cast<void>(consumer.stop());
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench: a consumer process failed: %s\n", e.what());
    return 1;
  }
}

}  // namespace bench
