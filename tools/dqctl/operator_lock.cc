#include "operator_lock.h"

#include <delayqueue/error.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <string>

#include "output/text.h"
#include "signals.h"

namespace dqctl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr milliseconds kLockTime{10'000};  // the lock expires: a killed dqctl blocks others for this long
constexpr milliseconds kLockPause{10};

const std::string& holder() {
  static const std::string name = "dqctl " + std::to_string(::getpid()) + ' ' + std::to_string(std::random_device()());
  return name;
}

}  // namespace

OperatorLock::OperatorLock(Output& output, delayqueue::QueueAdmin& admin) : admin_(admin) {
  auto patience = Clock::now() + std::chrono::seconds(1);
  try {
    while (!(held_ = admin_.lock(holder(), kLockTime)) && sleep_for(kLockPause)) {
      if (Clock::now() < patience) continue;
      output.stderr_line("waiting: another dqctl is purging or redriving messages of this queue");
      patience = Clock::time_point::max();
    }
  } catch (const delayqueue::ReplyError&) {
  }
}

OperatorLock::~OperatorLock() {
  if (!held_) return;
  try {
    admin_.unlock(holder());
  } catch (const delayqueue::Error&) {  // the lock expires
  }
}

}  // namespace dqctl
