// The integrity check of a queue: the implementation of QueueAdmin::check. store/integrity.h lists the verdicts.
//
// The check scans all keys of the queue, and one script gives each id a verdict. An id that is not healthy becomes a
// candidate. After a pause one script gives each candidate a second verdict, and repairs it if asked to. A candidate
// with the same verdict twice is a finding. An id that is in several keys becomes a candidate once, in the first scan
// that finds it.
//
// Some ids are healthy only if a list holds them. To find those, the check reads both lists and compares. Such a pass
// can miss an id that moves at the same time, so there is one before the pause and one after it; finally the script
// searches both ends of the lists, where ids are added and removed.
#pragma once

#include "inspector/partitions.h"
#include "store/integrity.h"
#include "store/record.h"
#include "store/schedules.h"

#include <delayqueue/queue_admin.h>

#include <cstdint>
#include <string>
#include <vector>

namespace delayqueue {

// Checks the layout and each partition. One that cannot be examined is part of the report, unless there is no other.
CheckReport check_partitions(Partitions& partitions, const CheckOptions& options);

// One object runs one check of one partition.
class IntegrityCheck {
 public:
  IntegrityCheck(SharedConnection& shared_connection, const CheckOptions& options)
      : shared_connection_(shared_connection), options_(options) {}

  CheckReport run();

 private:
  // An id that is healthy only if a list holds it. 17 bytes, since there may be millions.
  struct Listed {
    store::IdBytes id;
    char verdict;  // 'M' or 'C' (see store/integrity.h); if a list holds the id: '.' for 'M', 'E' for 'C'
  };

  bool check_types();
  void check_totals();
  void check_settings();
  void check_keys();
  void check_schedules();
  void check_schedule(const store::ReadSchedules& read, const store::StoredSchedule& stored);
  void check_slot(const store::StoredSchedule& stored);
  void report_schedule(const std::string& key, const std::string& name, const std::string& problem = {});
  void delete_invalid(const std::string& hash, const std::vector<std::string>& fields);
  void plan();
  void scan(store::Collection collection);
  void note_unexamined(const Error& error);
  void judge(store::Collection collection, const std::vector<std::string>& ids);
  void add_candidate(std::string id, char verdict);
  void search_lists(std::vector<Listed>& ids);
  bool search_list(const std::string& list, std::vector<Listed>& ids);
  void find_stranded();
  void confirm_candidates();
  void drop_listed();
  void confirm(const std::vector<store::Candidate>& some);
  void collect(const std::vector<std::string>& garbage);
  void report_damaged(const std::vector<std::string>& ids);
  void report(Finding finding);
  void advance(std::uint64_t steps);

  const store::Keys& keys() const { return shared_connection_.moves().keys(); }

  SharedConnection& shared_connection_;
  const CheckOptions& options_;
  CheckReport report_;
  std::vector<store::Candidate> candidates_;
  std::vector<Listed> listed_;
  bool has_stats_ = false;
  bool has_limits_ = false;
  bool has_unique_ = false, has_keys_ = false, has_schedules_ = false, can_check_schedules_ = true;
  std::uint64_t done_ = 0, total_ = 0;
};

}  // namespace delayqueue
