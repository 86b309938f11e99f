// A user of the installed library.
#include <delayqueue/delayqueue.h>

#include <iostream>

int main() {
  delayqueue::Producer orders("embedded:", "orders");
  const delayqueue::Sent sent = orders.send("hello");
  std::cout << "sent " << sent.id << '\n';
  return sent.created() ? 0 : 1;
}
