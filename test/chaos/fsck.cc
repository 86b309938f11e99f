#include "chaos/fsck.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;

struct Ending {};  // thrown to abort a check

// Not so headers: each script that deletes a body deletes them, too.
bool waits_for_consumers(delayqueue::Problem problem) {
  using delayqueue::Problem;
  return problem == Problem::expired || problem == Problem::garbage || problem == Problem::orphaned_metadata;
}

Breach breach_of(const delayqueue::Finding& finding) {
  const std::string what = finding.id + ": " + finding.description + (finding.repaired ? "; repaired" : "");
  return {std::string("check: ") + to_string(finding.problem), what, {finding.id}};
}

}  // namespace

Fsck::Fsck(const std::string& url, const std::string& queue, const Journal& journal)
    : admin_(url, queue), journal_(journal), thread_([this] { run(); }) {}

Fsck::~Fsck() { end(); }

std::vector<Breach> Fsck::end() {
  ending_ = true;
  if (thread_.joinable()) thread_.join();
  return found_;
}

void Fsck::run() {
  delayqueue::CheckOptions options;
  options.repair = true;
  options.progress = [this](std::uint64_t, std::uint64_t) {
    if (ending_) throw Ending();
  };
  while (!ending_) {
    try {
      const auto report = admin_.check(options);
      ++checks_;
      journal_.line("fsck looked " + std::to_string(report.examined));
      for (const auto& finding : report.findings) {
        if (waits_for_consumers(finding.problem)) continue;
        found_.push_back(breach_of(finding));
        journal_.line(found_.back().rule + ' ' + found_.back().id);
      }
    } catch (const Ending&) {
      return;
    } catch (const delayqueue::Error& e) {
      journal_.line(std::string("fsck_failed ") + e.what());
      std::this_thread::sleep_for(50ms);
    }
  }
}

std::vector<Breach> Fsck::last_check(const std::string& url, const std::string& queue) {
  delayqueue::CheckOptions options;
  options.recheck_after = 0ms;
  std::vector<Breach> found;
  const delayqueue::CheckReport report = delayqueue::QueueAdmin(url, queue).check(options);
  for (const auto& finding : report.findings) found.push_back(breach_of(finding));
  return found;
}

}  // namespace chaos
