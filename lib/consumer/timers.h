// When a consumer has to look for due messages, for ended leases and for overrunning handlers. Used by the consumer's
// thread only.
#pragma once

#include <delayqueue/options.h>

#include <algorithm>
#include <chrono>

namespace delayqueue {

class Timers {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  Timers(milliseconds poll_interval, milliseconds reconnect_grace, milliseconds processing_timeout)
      : poll_interval_(poll_interval), grace_(reconnect_grace), processing_timeout_(processing_timeout) {}

  // A new connection: everything is due. During the grace, leases that ended are left alone: their owners may have lost
  // the same server, and need time to renew them.
  void connected() {
    grace_end_ = Clock::now() + grace_;
    all_due();
  }

  void all_due() { promote_ = reclaim_ = Time(); }

  milliseconds poll_interval() const { return poll_interval_; }

  // Changes the poll_interval. A shorter one holds at once.
  void poll_every(milliseconds interval) {
    if (interval == poll_interval_) return;
    poll_interval_ = interval;
    const Time latest = Clock::now() + interval;
    promote_by(latest);
    reclaim_by(latest);
  }

  // pending2ready or pending2unack: at the latest a poll_interval after the last time; and always while the last one
  // moved a full batch, because more messages may be due.
  bool promote_is_due(Time now) const { return more_due_ || now >= promote_; }
  bool more_are_due() const { return more_due_; }
  void set_more_due(bool more) { more_due_ = more; }
  void promoting(Time now) { promote_ = now + poll_interval_; }
  void promote_now() { promote_ = Time(); }
  void promote_by(Time time) { promote_ = std::min(promote_, time); }

  // unack2retry: at the latest a poll_interval after the last time, and at the end of the grace.
  bool reclaim_is_due(Time now) const { return now >= reclaim_; }
  bool reclaims_only_backoffs(Time now) const { return now < grace_end_; }
  void reclaiming(Time now) {
    reclaim_ = now + poll_interval_;
    if (reclaims_only_backoffs(now)) reclaim_by(grace_end_);
  }
  void reclaim_by(Time time) { reclaim_ = std::min(reclaim_, time); }

  // Handlers that run longer than the processing timeout are noticed at most a tenth of it late.
  bool overrun_is_due(Time now) const { return now >= overrun_; }
  void checking_overrun(Time now) { overrun_ = now + std::max(processing_timeout_ / 10, milliseconds(1)); }
  Time next_overrun_check() const { return overrun_; }

  bool is_due(Time now) const { return now >= std::min(promote_, reclaim_); }
  Time next() const { return more_due_ ? Time() : std::min(promote_, reclaim_); }

 private:
  milliseconds poll_interval_;
  const milliseconds grace_;
  const milliseconds processing_timeout_;
  Time promote_, reclaim_, grace_end_, overrun_;
  bool more_due_ = false;
};

}  // namespace delayqueue
