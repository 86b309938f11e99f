#include "support/slow_names.h"

#include <dlfcn.h>
#include <netdb.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

namespace test {
namespace {

struct Count {
  int begun = 0;
  int ended = 0;
};

struct Counts {
  std::mutex mutex;  // guards the map
  std::map<std::string, Count> by_name;
};

// Never destroyed: a look-up may outlive main().
Counts& counts() {
  static auto* const all = new Counts;
  return *all;
}

void count(const std::string& name, int Count::*member) {
  const std::lock_guard lock(counts().mutex);
  ++(counts().by_name[name].*member);
}

Count count_of(const std::string& name) {
  const std::lock_guard lock(counts().mutex);
  return counts().by_name[name];
}

}  // namespace

std::string late_name(int ms) { return std::to_string(ms) + ".late.test"; }

int look_ups_under_way(const std::string& name) {
  const Count found = count_of(name);
  return found.begun - found.ended;
}

int look_ups_begun(const std::string& name) { return count_of(name).begun; }

}  // namespace test

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** result) {
  using Call = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Call>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string name = node == nullptr ? "" : node;
  const bool hangs = name == test::kHangingName;
  const bool late = name.find(".late.test") != std::string::npos;
  if (!hangs && !late) return real(node, service, hints, result);
  if ((hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  test::count(name, &test::Count::begun);
  std::this_thread::sleep_for(std::chrono::milliseconds(hangs ? 12'000 : std::atoi(name.c_str())));
  test::count(name, &test::Count::ended);
  return hangs ? EAI_NONAME : real("127.0.0.1", service, hints, result);
}
