// A partition as a Producer uses it: its connections, and the threads that send to it.
#pragma once

#include "producer/group_commit.h"
#include "queue/shared_connection.h"

#include <delayqueue/producer.h>

#include <atomic>
#include <chrono>
#include <string>

namespace delayqueue {

class ProducerPartition {
 public:
  ProducerPartition(const std::string& url, const std::string& queue, const ProducerOptions& options,
                    GroupCommit::Hooks hooks);
  ProducerPartition(const SharedConnection& home, unsigned number, std::chrono::microseconds busy_wait,
                    GroupCommit::Hooks hooks);

  // The group commit that the calling thread joins. Many threads that send at the same time use two, each with its
  // own connection: while Redis executes what some of them have sent, the others wake and send again.
  GroupCommit& commit();

  SharedConnection connection;
  std::atomic<bool> has_copy{false};  // its copy of the layout was read

 private:
  GroupCommit::Answered answered_;
  GroupCommit first_;
  SharedConnection second_connection_;
  GroupCommit second_;
};

}  // namespace delayqueue
