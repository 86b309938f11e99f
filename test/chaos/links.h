// Faults of connections: a proxy between some of the processes and the server.
#pragma once

#include "chaos/journal.h"
#include "chaos/schedule.h"
#include "support/proxy.h"

namespace chaos {

class Links {
 public:
  Links(const std::string& address, const Journal& journal) : journal_(journal), proxy_(address) {}

  std::string url() const { return proxy_.url(); }

  static std::vector<FaultKind> faults(milliseconds lease);
  void apply(const Step& step);  // returns when the fault is over
  void calm_down();

 private:
  const Journal& journal_;
  test::FaultProxy proxy_;
};

}  // namespace chaos
