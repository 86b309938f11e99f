// When a consumer has to look for due messages, for ended leases and for overrunning handlers. Used by the consumer's
// thread only.
#pragma once

#include <delayqueue/options.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace delayqueue {

class Timers {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  Timers(milliseconds poll_interval, milliseconds reconnect_grace, milliseconds processing_timeout, milliseconds lease)
      : poll_interval_(poll_interval),
        grace_(reconnect_grace),
        processing_timeout_(processing_timeout),
        outage_(lease / 2) {}

  // A new connection: everything is due. During the grace, leases that ended are left alone: their owners may have lost
  // the same server, and need time to renew them. The grace is time with a connection: links that are shorter than it
  // add up. It begins again only after an outage in which leases may have ended that are renewed in time; and a few
  // times at most before ended leases are taken back, or with such links no ended lease would ever be taken back.
  void connected(Time now) {
    const bool is_outage = !answered_ || now - *answered_ >= outage_;
    if (is_outage && graces_ < kMostGraces) {
      grace_left_ = grace_;
      ++graces_;
    }
    grace_end_ = now + grace_left_;
    connected_ = true;
    answered_ = now;
    all_due();
  }

  // The server has answered an unack2retry.
  void reclaimed(Time now) {
    answered_ = now;
    if (!reclaims_only_backoffs(now)) graces_ = 0;
  }

  // The connection was lost.
  void disconnected(Time now) {
    if (std::exchange(connected_, false)) grace_left_ = std::max(grace_end_ - now, Clock::duration::zero());
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
  bool promote_is_due(Time now) const { return now >= promote_; }
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

  Time next() const { return more_due_ ? Time() : std::min(promote_, reclaim_); }

 private:
  static constexpr int kMostGraces = 3;

  milliseconds poll_interval_;
  const milliseconds grace_;
  const milliseconds processing_timeout_;
  const Clock::duration outage_;   // without an answer; leases are renewed when a third of them has passed
  Clock::duration grace_left_{0};  // while there is no connection
  int graces_ = 0;                 // that began since ended leases were taken back
  std::optional<Time> answered_;
  bool connected_ = false;
  Time promote_, reclaim_, grace_end_, overrun_;
  bool more_due_ = false;
};

}  // namespace delayqueue
