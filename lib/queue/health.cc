#include "queue/health.h"

namespace delayqueue {
namespace {

constexpr ReconnectBackoff::Pauses kUnreachable{milliseconds(50), milliseconds(1000)};  // it may be back any moment
constexpr ReconnectBackoff::Pauses kForbidden{milliseconds(500), milliseconds(5000)};   // until a person does something

}  // namespace

// A password, an ACL rule or a setting of this machine is changed by a person, so attempts may be rare; but not so rare
// that leases end that can still be renewed.
ReconnectBackoff::Pauses pauses_after(const redis::Failure& failure, std::optional<milliseconds> lease) {
  if (!failure.is_access_denied() && failure.kind != redis::Failure::Kind::setup) return kUnreachable;
  if (!lease) return kForbidden;
  return {kForbidden.shortest, std::clamp(*lease / 3, kUnreachable.longest, kForbidden.longest)};
}

std::optional<std::string> HealthMonitor::succeeded(const std::string& where) {
  const Clock::time_point now = Clock::now();
  std::optional<std::string> text;
  if (is_failing()) text = "Redis answers again at " + where + "; it failed " + backoff_.duration_text(now);
  backoff_.succeeded(now);
  state_ = Health::works;
  return text;
}

std::string HealthMonitor::failed(const std::string& what, const ReconnectBackoff::Pauses& pauses,
                                  std::optional<Clock::time_point> since) {
  if (state_ != Health::away) state_ = Health::failing;
  return backoff_.failed(what, pauses, Clock::now(), since);
}

}  // namespace delayqueue
