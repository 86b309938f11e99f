// Must be stopped by the address sanitizer.
#include <memory>

int main() {
  auto number = std::make_unique<volatile int>(1);
  volatile int* gone = number.get();
  number.reset();
  return *gone - *gone;
}
