#include "inspector/partitions.h"

#include "redis/escaped.h"
#include "store/layout.h"

#include <iterator>
#include <numeric>
#include <optional>
#include <stdexcept>

namespace delayqueue {

Partitions::Partitions(const Client& client, const std::string& queue, const InspectorOptions& options, LostCopies lost)
    : home_(client, queue, {}, RegisterQueue::if_exists),
      only_(options.partition),
      lost_(lost),
      layout_(queue, home_.endpoint().key_options(),
              [this](unsigned partition, const auto& call) { of(partition).with_connection(call); }) {
  if (only_) of(*only_);  // throws if there can be no such partition
}

SharedConnection& Partitions::of(unsigned partition) {
  if (partition == 0) return home_;
  const std::lock_guard lock(mutex_);
  auto& connection = others_[partition];
  if (connection == nullptr) connection = std::make_unique<SharedConnection>(home_, partition);
  return *connection;
}

std::vector<unsigned> Partitions::all(LostCopies lost) {
  check_only();
  if (only_) return {*only_};
  layout_.read(lost);
  read_ = true;
  std::vector<unsigned> partitions(layout_.known().top);
  std::iota(partitions.begin(), partitions.end(), 0U);
  return partitions;
}

unsigned Partitions::top() {
  if (!read_) static_cast<void>(all());
  return layout_.known().top;
}

void Partitions::check_only() {
  if (!only_ || *only_ < layout_.known().top) return;
  const bool complete = layout_.read(LostCopies::leave);
  const unsigned top = layout_.known().top;
  if (*only_ < top) return;
  const std::string queue = redis::escaped(home_.endpoint().queue());
  if (!complete) {
    throw ConnectionError("cannot tell whether " + queue + " has partition " + std::to_string(*only_) +
                          ": it is known " + "to have " + std::to_string(top) +
                          ", and the layout in partitions 0 and 1 cannot be read");
  }
  throw std::invalid_argument("partition: " + std::to_string(*only_) + "; " + queue +
                              (top == 1 ? " has only partition 0" : " has partitions 0 to " + std::to_string(top - 1)));
}

void Partitions::exchange(std::vector<unsigned> partitions, const Add& add, const Fail& fail) {
  while (!partitions.empty()) {
    SharedConnection& first = of(partitions.front());
    std::vector<unsigned> some{partitions.front()};  // those of one server
    std::size_t read = 0;                            // of which the answers are read
    bool connected = false;
    const auto call = [&](redis::Connection& connection) {
      connected = true;
      std::copy_if(partitions.begin() + 1, partitions.end(), std::back_inserter(some),
                   [&](unsigned partition) { return of(partition).endpoint().reaches(connection); });
      redis::Pipeline pipeline(connection);
      std::vector<std::pair<std::size_t, Read>> reads;  // with the request for the format; the first is verified
      for (const unsigned partition : some) {
        const std::size_t format = pipeline.size();
        if (partition != some.front()) {
          pipeline.command("HMGET").key(of(partition).moves().keys().settings).arg("format");
        }
        reads.emplace_back(format, add(pipeline, partition));
      }
      pipeline.run();
      std::exception_ptr unusable;  // an error after which a connection is replaced
      for (; read < some.size(); ++read) {
        try {
          if (read > 0) of(some[read]).endpoint().check_format(pipeline, reads[read].first);
          reads[read].second(connection.where());
        } catch (const ReplyError&) {
          fail(some[read], std::current_exception());
        } catch (const Error&) {
          unusable = std::current_exception();
          fail(some[read], unusable);
        }
      }
      if (unusable != nullptr) std::rethrow_exception(unusable);
    };
    try {
      first.with_connection(call);
    } catch (const Error& e) {
      // A login that was refused is not tried again for each partition: that could lock the account.
      const bool denied = dynamic_cast<const AccessDenied*>(&e) != nullptr;
      if (!connected) {
        std::copy_if(partitions.begin() + 1, partitions.end(), std::back_inserter(some),
                     [&](unsigned partition) { return denied || share_master(first, of(partition)); });
      }
      for (; read < some.size(); ++read) fail(some[read], std::current_exception());
    }
    const auto is_done = [&](unsigned partition) {
      return std::find(some.begin(), some.end(), partition) != some.end();
    };
    partitions.erase(std::remove_if(partitions.begin(), partitions.end(), is_done), partitions.end());
  }
}

// The partitions that ask_all() has not asked yet.
std::vector<unsigned> Partitions::further(std::size_t asked) {
  if (only_ && asked > 0) return {};
  check_only();
  if (only_) return {*only_};
  std::vector<unsigned> partitions;
  for (auto partition = static_cast<unsigned>(asked); partition < layout_.known().top; ++partition) {
    partitions.push_back(partition);
  }
  return partitions;
}

// Whether ask_all() also reads the copy of partition 1, of which it asks nothing else. Once is enough: from then on
// this object has that copy, and it reads that of partition 0 each time. So the loss of another master of a Cluster
// does not delay each call for a queue that has one partition.
bool Partitions::needs_copy(std::size_t asked) {
  return !only_ && asked == 1 && layout_.possible() > 1 && !asked_copy_.exchange(true);
}

// Adds a request for the copy of partition 0 or 1. A copy that this user may not read counts as absent, and so does one
// of partition 1 that is something else.
std::function<void()> Partitions::add_copy(redis::Pipeline& pipeline, unsigned partition) {
  if (only_ || partition > 1) return [] {};
  const auto copy = store::read_layout(pipeline, of(partition).moves().keys());
  return [this, copy, partition] {
    try {
      layout_.remember(partition, copy.get());
      read_ = true;
    } catch (const AccessDenied&) {
    } catch (const ReplyError&) {
      if (partition == 0) throw;
    }
  };
}

std::vector<unsigned> Partitions::of_ids(const std::vector<std::string>& ids) {
  check_only();
  if (!only_) return layout_.partitions_of(ids, lost_);
  return std::vector<unsigned>(ids.size(), *only_);
}

void Partitions::wake(const std::set<unsigned>& partitions) {
  if (partitions.empty()) return;
  try {
    home_.with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      for (const unsigned partition : partitions) {
        partition == 0 ? home_.moves().wake(pipeline) : home_.moves().wake_for(pipeline, partition, "0");
      }
      pipeline.run();
    });
  } catch (const ConnectionError&) {
    if (partitions.count(0) > 0) throw;
  }
}

std::vector<unsigned> Partitions::probe(Probe which) {
  std::vector<std::optional<store::Examined>> all(layout_.possible());
  std::exception_ptr error;
  const auto add = [&](redis::Pipeline& pipeline, unsigned partition) -> Read {
    const store::Keys& keys = of(partition).moves().keys();
    const auto copy = store::read_layout(pipeline, keys);
    const auto messages = store::has_messages(pipeline, keys);
    return [&all, partition, copy, messages](const std::string&) {
      try {
        all[partition] = store::Examined{copy.get(), messages.get()};
      } catch (const AccessDenied&) {
        throw;
      } catch (const ReplyError&) {  // another program uses the key of the copy
        if (partition == 0) throw;
        all[partition] = store::Examined{{}, true};
      }
    };
  };
  const auto fail = [&](unsigned, const std::exception_ptr& why) {
    if (error == nullptr && which == Probe::complete) error = why;
  };
  // Those of the copies first: a user who has no rights for other partitions would otherwise fill the log of Redis.
  std::vector<unsigned> some = {0, 1};
  some.resize(std::min<std::size_t>(some.size(), all.size()));
  bool denied = false;
  exchange(some, add, [&](unsigned partition, const std::exception_ptr& why) {
    fail(partition, why);
    try {
      std::rethrow_exception(why);
    } catch (const AccessDenied&) {
      denied = true;
    } catch (const Error&) {
    }
  });
  if (error == nullptr && !denied) {
    some.resize(all.size());
    std::iota(some.begin(), some.end(), 0U);
    some.erase(some.begin(), some.begin() + std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(some.size())));
    exchange(some, add, fail);
  }
  if (error != nullptr) std::rethrow_exception(error);
  return layout_.probe(all);
}

// The two copies are read again after the others: a number that is set meanwhile is in them first.
Partitions::Lost Partitions::find_lost() {
  if (only_) return {};
  std::vector<unsigned> uncopied = probe(Probe::reachable);
  if (!layout_.read(LostCopies::leave)) return {};
  Lost lost{layout_.named(), layout_.known(), {}};
  std::copy_if(uncopied.begin(), uncopied.end(), std::back_inserter(lost.uncopied),
               [&](unsigned partition) { return partition >= lost.whole.top; });
  return lost;
}

}  // namespace delayqueue
