// Must be stopped by the undefined behaviour sanitizer.
#include <limits>

int main() {
  volatile int most = std::numeric_limits<int>::max();
  most = most + 1;
  return 0;
}
