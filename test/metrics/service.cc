// A service for prometheus_test.py: a consumer and a producer of one queue, whose metrics it serves at /metrics.
//
//   metrics_service URL QUEUE PORT
//
// It sends a message every 200 ms, which its consumer acks. The first delivery of a message "hang" hangs.
#include <delayqueue/delayqueue.h>

#include <httplib.h>
#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;

delayqueue::Verdict handle(const delayqueue::Message& message) {
  if (message.payload() == "hang" && message.attempt() == 1) std::this_thread::sleep_for(24h);
  return delayqueue::ack();
}

int serve(const std::string& url, const std::string& queue, int port) {
  delayqueue::ConsumerOptions options;
  options.concurrency = 2;
  options.lease = 1s;
  delayqueue::Consumer consumer(url, queue, handle, options);
  consumer.start();
  delayqueue::Producer producer(url, queue);
  std::thread([&producer] {
    for (;; std::this_thread::sleep_for(200ms)) {
      try {
        producer.send("tick");
      } catch (const delayqueue::Error&) {  // the metrics count it
      }
    }
  }).detach();
  httplib::Server server;
  server.Get("/metrics", [&](const httplib::Request&, httplib::Response& response) {
    response.set_content(
        delayqueue::prometheus_text(consumer.metrics()) + delayqueue::prometheus_text({producer.metrics()}),
        "text/plain; version=0.0.4");
  });
  return server.listen("127.0.0.1", port) ? 0 : 1;  // until a signal ends the process
}

}  // namespace

int main(int count, char** words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends it with the test
  if (count != 4) {
    std::fputs("usage: metrics_service URL QUEUE PORT\n", stderr);
    return 2;
  }
  try {
    return serve(words[1], words[2], std::atoi(words[3]));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "metrics_service: %s\n", e.what());
    return 1;
  }
}
