// The three topologies. One thread applies the faults one after the other.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "chaos/watch.h"
#include "chaos/world.h"
#include "support/cluster.h"
#include "support/node.h"
#include "support/sentinels.h"

namespace chaos {

// The faults of any server that has the queue, except for its end: cut connections, flushed scripts, full memory.
std::vector<FaultKind> common_faults();
bool apply_common(const Step& step, const test::Node& node);  // false: not one of these

test::NodeOptions persistent();

// Sends SHUTDOWN and waits for the end.
void shut_down(test::Node& node);

// The time by which a replica may lag behind its master.
inline constexpr std::int64_t kReplicationLag = 1'000'000;

// The time for which clients may write to a demoted master after a failover or a SIGCONT.
inline constexpr std::int64_t kLeaving = 1'500'000;

void note_window(const Journal& journal, std::int64_t from_us, std::int64_t to_us);

class SingleWorld : public World {
 public:
  SingleWorld(std::string queue, const Journal& journal);

  std::string url() const override { return node_.url(); }
  std::string base() const override { return "dp:" + queue_; }
  std::string address() const override { return node_.address(); }
  std::string socket() const override { return node_.file("s"); }
  std::vector<FaultKind> faults() const override;
  void apply(const Step& step) override;
  void calm_down() override {}
  std::vector<std::string> logs() override { return {node_.file("log")}; }
  test::Reply cmd(const std::vector<std::string>& words) override { return node_.cmd(words); }

 private:
  void kill(bool fsync_always);

  const std::string queue_;
  const Journal& journal_;
  test::Node node_;
};

class SentinelWorld : public World {
 public:
  SentinelWorld(std::string queue, const Journal& journal);

  std::string url() const override { return sentinels_.url(); }
  std::string base() const override { return "dp:" + queue_; }
  std::vector<FaultKind> faults() const override;
  void apply(const Step& step) override;
  void calm_down() override { sentinels_.wait_ok(); }
  std::vector<std::string> logs() override;
  test::Reply cmd(const std::vector<std::string>& words) override { return sentinels_.master().cmd(words); }

 private:
  void fail_over(const Step& step);
  void replace_master(const Step& step, bool freezes);
  void restart_replica(const Step& step);

  const std::string queue_;
  const Journal& journal_;
  test::Sentinels sentinels_;
  Watch watch_;  // last: uses the other members
};

class ClusterWorld : public World {
 public:
  ClusterWorld(std::string queue, const Journal& journal);

  std::string url() const override { return cluster_.url(); }
  std::string base() const override { return "{dp:" + queue_ + "}"; }
  std::vector<FaultKind> faults() const override;
  void apply(const Step& step) override;
  void calm_down() override { cluster_.wait_ok(); }
  std::vector<std::string> logs() override;
  test::Reply cmd(const std::vector<std::string>& words) override { return cluster_.owner(base()).cmd(words); }

 private:
  void fail_over(const Step& step);
  void replace_owner(const Step& step, bool freezes);
  void restart_replica(const Step& step);
  void migrate(const Step& step);

  const std::string queue_;
  const Journal& journal_;
  test::Cluster cluster_;
  Watch watch_;  // last: uses the other members
};

}  // namespace chaos
