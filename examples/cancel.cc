// Cancels a message.   cancel [URL] QUEUE ID

#include <delayqueue/delayqueue.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using delayqueue::State;

constexpr char kUsage[] =
    "usage: cancel [URL] QUEUE ID\n"
    "  Cancels the message with this ID and prints the state that it had.\n"
    "  Exit code 0 if it will not be delivered any more, 1 if it was too late.\n"
    "  URL is redis://[user:password@]host[:port][/db], rediss://..., unix:///path or embedded:/folder;\n"
    "  default: $DELAYQUEUE_URI, or else redis://127.0.0.1:6379\n";

bool is_url(const std::string& word) {
  return word.find("://") != std::string::npos || word.rfind("embedded:", 0) == 0;
}

std::string default_url() {
  const char* set = std::getenv("DELAYQUEUE_URI");
  return set != nullptr && *set != '\0' ? set : "redis://127.0.0.1:6379";
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string url = default_url();
  if (!words.empty() && is_url(words.front())) {
    url = words.front();
    words.erase(words.begin());
  }
  if (words.size() != 2) {
    std::cerr << kUsage;
    return 2;
  }
  try {
    delayqueue::Producer producer(url, words[0]);
    const State was = producer.cancel(words[1]);
    if (was == State::unknown) {
      std::cout << "unknown: never sent, handled already, or cancelled before\n";
      return 1;
    }
    if (was == State::unack) {
      std::cout << "too late: it is in flight; if this delivery fails, there will be no other\n";
      return 1;
    }
    std::cout << "cancelled; it was " << to_string(was) << '\n';
    return 0;
  } catch (const std::invalid_argument& e) {
    std::cerr << "cancel: " << e.what() << '\n';
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "cancel: " << e.what() << '\n';
    return 1;
  }
}
