// A user of the installed library.
#include <delayqueue/delayqueue.h>

#include <chrono>
#include <ctime>
#include <iostream>

namespace {

// A static library of delayqueue needs the library that it reads time zones with.
void print_next_morning() {
  const std::time_t january = 1'800'000'000;  // the 15th of 2027, 8:00 in UTC and 9:00 in Berlin
  delayqueue::Schedule schedule;
  schedule.cron = "1 9 * * *";
  schedule.zone = "Europe/Berlin";
  try {
    using std::chrono::system_clock;
    const auto times = delayqueue::next_times(schedule, system_clock::from_time_t(january), 1);
    std::cout << "9:01 in Berlin is " << system_clock::to_time_t(times.at(0)) - january << " s after 8:00 in UTC\n";
  } catch (const delayqueue::SetupError& e) {
    std::cout << e.what() << '\n';
  }
}

}  // namespace

int main() {
  delayqueue::Producer orders("embedded:", "orders");
  const delayqueue::Sent sent = orders.send("hello");
  std::cout << "sent " << sent.id << '\n';
  print_next_morning();
  return sent.created() ? 0 : 1;
}
