// The changes that clients of dqctl serve may make, or see what they would do.
#pragma once

#include <delayqueue/inspector.h>

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <string>

#include "filter.h"
#include "output/json.h"
#include "serve/audit.h"
#include "serve/change_request.h"
#include "serve/clients.h"
#include "serve/reads.h"

namespace dqctl {

// One part of a change of many messages. `next` continues it; empty: there is no further part, or it needs none.
struct BulkPart {
  std::uint64_t done = 0, left_alone = 0, examined = 0;
  bool complete = false;
  std::string next{};
  std::string error{};
};

// Any number of threads may use it. Access must have been checked before. Every attempt to change something is written
// to the audit, whether it succeeds or not; dry runs are not. What was changed is also recorded among the actions of
// the queue, as by dqctl --audit.
class Changes {
 public:
  Changes(Clients& clients, const Reads& reads, Audit& audit) : clients_(clients), reads_(reads), audit_(audit) {}

  // Throw HttpError, Usage, std::invalid_argument and delayqueue::Error.
  Object change_queue(const ChangeRequest& request, const std::string& queue, const ServedClient& client);
  Object change_message(const ChangeRequest& request, const std::string& queue, const std::string& id,
                        const ServedClient& client);

  // Call it before the process ends while changes may run: none begins from now on. Waits until those that run are in
  // the audit, and after `limit` writes there that their result is unknown.
  void end(milliseconds limit);

 private:
  using Running = std::list<ServedChange>::iterator;

  Object pause(const ChangeRequest& request, const std::string& queue, ServedChange& change);
  Object pause_object(const ChangeRequest& request, const std::string& queue, const std::string& summary);
  Object bulk(const ChangeRequest& request, const std::string& queue, ServedChange& change);
  Object bulk_dry_run(const ChangeRequest& request, const std::string& queue);
  void redrive(const ChangeRequest& request, const std::string& queue, const delayqueue::Counts& counts,
               BulkPart& result);
  void purge(const ChangeRequest& request, const std::string& queue, const delayqueue::Counts& counts,
             BulkPart& result);
  void purge_without_reading(const ChangeRequest& request, const std::string& queue, const delayqueue::Counts& counts,
                             BulkPart& result);
  Object by_id(const ChangeRequest& request, const std::string& queue, const std::string& id, ServedChange& change);
  Object by_id_dry_run(const ChangeRequest& request, const std::string& queue, const std::string& id);

  // Runs `act` and writes the audit.
  Object audited(const ChangeRequest& request, const std::string& queue, const ServedClient& client,
                 ServedChange change, const std::function<Object(ServedChange&)>& act);
  void record(const ServedChange& change);
  Running begin(const ServedChange& change);
  void finish(Running running, const ServedChange& change);

  Clients& clients_;
  const Reads& reads_;
  Audit& audit_;
  std::mutex bulk_mutex_;  // one change of many messages at a time
  std::mutex running_mutex_;
  std::condition_variable finished_;
  std::list<ServedChange> running_{};  // guarded by running_mutex_, as the next
  bool ended_ = false;
};

}  // namespace dqctl
