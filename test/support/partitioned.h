// Queues with partitions, and messages in chosen ones, with ids that name them.
#pragma once

#include "queue/endpoint.h"
#include "redis/pipeline.h"
#include "store/keys.h"
#include "store/moves.h"
#include "store/record.h"
#include "support/ledger.h"
#include "support/server.h"

namespace test {

class PartitionSender {
 public:
  PartitionSender(const std::string& url, const std::string& queue) : home_(url, queue) {}

  // Returns the id of the message.
  std::string send(unsigned partition, const std::string& payload = "x", std::chrono::milliseconds delay = {}) {
    return send(partition, id(partition), payload, delay);
  }

  std::string send(unsigned partition, const std::string& id, const std::string& payload,
                   std::chrono::milliseconds delay) {
    delayqueue::Endpoint endpoint(home_, partition);
    const auto connection = endpoint.connect();
    const delayqueue::store::Moves moves(endpoint.keys());
    delayqueue::redis::Pipeline pipeline(*connection);
    const auto answer = moves.send(pipeline, {{id, payload}}, {{delay, 0}});
    pipeline.run();
    if (answer.get() != "1") throw delayqueue::ReplyError("not sent: " + id);
    return id;
  }

  // A new id that was made for this partition.
  std::string id(unsigned partition) const {
    const auto name_crc = delayqueue::store::name_crc(home_.queue(), home_.prefix());
    return delayqueue::store::new_ids(1, {name_crc, static_cast<std::uint8_t>(partition)}).front();
  }

  delayqueue::store::Keys keys(unsigned partition) const {
    return delayqueue::store::make_keys(home_.queue(), home_.key_options(), partition);
  }

 private:
  delayqueue::Endpoint home_;
};

// A queue with partitions.
struct Partitioned : Queue {
  explicit Partitioned(unsigned partitions, const std::string& at = server().url()) : Queue(at) {
    admin.set_partitions(partitions);
  }

  // Of one partition.
  delayqueue::InspectorOptions only(unsigned partition) const { return {partition}; }

  // A new id that names no partition of this queue. By chance, one in 4096 of those of another queue does.
  std::string foreign_id() const {
    const PartitionSender other(url, fresh_queue());
    while (true) {
      std::string id = other.id(5);
      if (!delayqueue::store::partition_of(id, delayqueue::store::name_crc(name, "dp"))) return id;
    }
  }

  PartitionSender to{url, name};
};

// How many reads the server needed for the requests of `call`. A request of more than 16 KiB takes several.
template <class Call>
long reads_of(Call call) {
  const auto reads = [] { return std::stol(info("stats", "total_reads_processed")); };
  const long before = reads();
  call();
  return reads() - before - 1;
}

}  // namespace test
