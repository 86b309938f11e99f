// The changes that the user of dqctl top can make: the questions before them, and how they are made.
#pragma once

#include <delayqueue/inspector.h>
#include <delayqueue/queue_admin.h>

#include <cstdint>
#include <string>
#include <vector>

#include "context.h"
#include "pages.h"

namespace dqctl {

struct TopChange {
  enum class Kind { pause, resume, redrive_all, redrive, release, bury };

  Kind kind = Kind::pause;
  std::string queue{};
  std::string id{};  // only of redrive, release and bury
};

// The question before the change. dead: how many dead letters the queue has now.
std::string question_about(const TopChange& change, std::uint64_t dead);

// Why the change of this message cannot be made; empty: it can.
std::string refusal_of(TopChange::Kind kind, const delayqueue::MessageInfo& message);

// Makes the change, and records it if the user has requested that. Returns the result, for the screen. Not for
// redrive_all, which may take long: see RedriveRun.
std::string make_change(Context& context, const TopChange& change);

// Redrives the dead letters that a queue had when the object was created, as dqctl redrive --all does. Has its own
// clients, because those of the context are not kept for the whole run.
class RedriveRun {
 public:
  RedriveRun(Context& context, const std::string& queue);

  // Redrives at most 200 more. False: that was all, or an error has ended it.
  bool step();

  // What was done so far, for the screen.
  std::string progress() const;

  // Ends the run, and records it if the user has requested that. Returns the result, for the screen.
  std::string end();

 private:
  Context& context_;
  const std::string queue_;
  delayqueue::Inspector inspector_;
  delayqueue::QueueAdmin admin_;
  const delayqueue::Counts counts_;
  Pages pages_;
  std::uint64_t done_ = 0, unconfirmed_ = 0;
  bool complete_ = false;
  std::string error_{};
};

}  // namespace dqctl
