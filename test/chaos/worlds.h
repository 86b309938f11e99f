// The topologies. One thread applies the faults one after the other.
#pragma once

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

// `partitions`: "3,7", those whose messages may be lost; empty: all.
void note_window(const Journal& journal, std::int64_t from_us, std::int64_t to_us, const std::string& partitions = {});

// Kills a server with `appendfsync everysec`, and notes the window of what it may lose.
void kill_with_window(const Journal& journal, test::Node& node, const std::string& partitions = {});

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
  const test::Node& owner(const std::string& /*key*/) override { return node_; }

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
  const test::Node& owner(const std::string& /*key*/) override { return sentinels_.master(); }

 private:
  void fail_over(const Step& step);
  void replace_master(const Step& step, bool freezes);
  void restart_replica(const Step& step);

  const std::string queue_;
  const Journal& journal_;
  test::Sentinels sentinels_;
  Watch watch_;  // last: uses the other members
};

// Each fault concerns the master of one partition, which the step chooses.
class ClusterWorld : public World {
 public:
  // `numbers`: of partitions that the run sets; empty: the queue has one.
  ClusterWorld(const std::string& queue, const Journal& journal, std::vector<unsigned> numbers = {});

  std::string url() const override { return cluster_.url(); }
  std::string base() const override { return bases_.front(); }
  std::vector<unsigned> numbers() const override { return numbers_; }
  std::vector<std::string> bases() const override { return bases_; }
  std::vector<FaultKind> faults() const override;
  void apply(const Step& step) override;
  void calm_down() override { cluster_.wait_ok(); }
  std::vector<std::string> logs() override;
  const test::Node& owner(const std::string& key) override { return cluster_.owner(key); }

 private:
  void fail_over(const Step& step, const std::string& base);
  void replace_owner(const Step& step, const std::string& base, bool freezes);
  void restart_replica(const Step& step, const std::string& base);
  void migrate(const Step& step, const std::string& base);
  void take_away(const Step& step, const std::string& base);
  void lose_layout(const Step& step);
  std::string partitions_of(const test::Node& node);
  std::string masters();

  const std::vector<unsigned> numbers_;
  const std::vector<std::string> bases_;  // by partition
  std::size_t layouts_lost_ = 0;
  const Journal& journal_;
  test::Cluster cluster_;
  Watch watch_;  // last: uses the other members
};

}  // namespace chaos
