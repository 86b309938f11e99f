// Must be failed by the thread sanitizer.
#include <thread>

int main() {
  int number = 0;
  std::thread other([&number] { number = 1; });
  number = 2;
  other.join();
  return number - number;
}
