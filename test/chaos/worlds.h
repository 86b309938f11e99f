// The three topologies. One thread uses a world.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "chaos/world.h"
#include "support/node.h"

namespace chaos {

using Command = std::function<test::Reply(const std::vector<std::string>&)>;

// What can happen to any server that has the queue, but for its end: connections cut, scripts forgotten, memory full.
std::vector<FaultKind> common_faults();
bool apply_common(const Step& step, const Command& command);  // false: it is none of these

// SHUTDOWN, and gone.
void shut_down(test::Node& node);

class SingleWorld : public World {
 public:
  SingleWorld(std::string queue, const Journal& journal);

  std::string url() const override { return node_.url(); }
  std::string disturbed_url() const override { return node_.url(); }
  std::vector<FaultKind> faults() const override;
  void apply(const Step& step) override;
  void calm_down() override {}
  test::Reply cmd(const std::vector<std::string>& words) override { return node_.cmd(words); }
  std::string base() const override { return "dp:" + queue_; }

 private:
  const std::string queue_;
  const Journal& journal_;
  test::Node node_;
};

}  // namespace chaos
