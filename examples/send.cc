// Sends one message and prints its id.   send [URL] QUEUE PAYLOAD [SECONDS]

#include <delayqueue/delayqueue.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr char kUsage[] =
    "usage: send [URL] QUEUE PAYLOAD [SECONDS]\n"
    "  Sends PAYLOAD to QUEUE, due in SECONDS (default: now), and prints the id of the message.\n"
    "  URL is redis://[user:password@]host[:port][/db], rediss://..., unix:///path or embedded:/folder;\n"
    "  default: $DELAYQUEUE_URI, or else redis://127.0.0.1:6379\n";

bool is_url(const std::string& word) {
  return word.find("://") != std::string::npos || word.rfind("embedded:", 0) == 0;
}

std::string default_url() {
  const char* set = std::getenv("DELAYQUEUE_URI");
  return set != nullptr && *set != '\0' ? set : "redis://127.0.0.1:6379";
}

delayqueue::milliseconds seconds(const std::string& word) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (word.empty() || *end != '\0' || !(value >= 0 && value < 1e10)) {
    throw std::invalid_argument("SECONDS: \"" + word + "\"; expected a number of 0 or more");
  }
  return std::chrono::ceil<delayqueue::milliseconds>(std::chrono::duration<double>(value));
}

// Retries a send. After a ConnectionError it is unknown whether the message was stored. Sending it again with the same
// id is safe: the queue stores an id only once.
delayqueue::Sent send(delayqueue::Producer& producer, const std::string& payload, delayqueue::SendOptions options) {
  for (int tries_left = 2;; --tries_left) {
    try {
      return producer.send(payload, options);
    } catch (const delayqueue::ConnectionError& e) {
      if (tries_left == 0) throw;
      options.id = e.ids().front();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string url = default_url();
  if (!words.empty() && is_url(words.front())) {
    url = words.front();
    words.erase(words.begin());
  }
  if (words.size() != 2 && words.size() != 3) {
    std::cerr << kUsage;
    return 2;
  }
  try {
    delayqueue::SendOptions options;
    if (words.size() == 3) options.delay = seconds(words[2]);
    delayqueue::Producer producer(url, words[0]);
    std::cout << send(producer, words[1], options).id << '\n';
    return 0;
  } catch (const std::invalid_argument& e) {
    std::cerr << "send: " << e.what() << '\n';
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "send: " << e.what() << '\n';
    return 1;
  }
}
