// Tests of a user of the installed library.
#include <delayqueue/testing.h>

#include <iostream>

int main() {
  delayqueue::testing::RecordingSender sender;
  const delayqueue::Sent sent = sender.send("hello");
  std::cout << "sent " << sent.id << '\n';
  return sender.sent().size() == 1 ? 0 : 1;
}
