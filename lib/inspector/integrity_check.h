// The walk of Inspector::check. Which verdicts there are, and why: store/checks.h.
//
// Everything stored of the queue is scanned, and each id judged by one script. What is not healthy is a suspect. After
// a pause suspects are judged anew, and mended, in one script: who gets the same verdict twice is a finding. An id that
// is in several places is a suspect of the first walk that meets it only.
//
// Whether a message is in a list at all takes a walk over the lists, against all ids that must be in one. Such a walk
// can miss an id that moves meanwhile; so one is made before the pause and one after it, and the script has a last look
// at where ids come and go.
#pragma once

#include "queue/shared_connection.h"
#include "store/integrity.h"
#include "store/record.h"

#include <delayqueue/inspector.h>

#include <cstdint>
#include <string>
#include <vector>

namespace delayqueue {

// Used once.
class IntegrityCheck {
 public:
  IntegrityCheck(SharedConnection& session, const CheckOptions& options)
      : shared_connection_(session), options_(options) {}

  CheckReport run();

 private:
  // Must be in a list. A million of them may be: 17 bytes each.
  struct Listed {
    store::IdBytes id;
    char verdict;  // 'M' or 'C' (see store/checks.h); '.' once it was seen in a list
  };

  bool check_types();
  void check_totals();
  void plan();
  void walk(store::Where where);
  void judge(store::Where where, const std::vector<std::string>& ids);
  void suspect(std::string id, char verdict);
  void search_lists(std::vector<Listed>& ids);
  bool search_list(const std::string& list, std::vector<Listed>& ids);
  void look_for_stranded();
  void judge_again();
  void drop_listed();
  void judge_again(const std::vector<store::Suspect>& some);
  void collect(const std::vector<std::string>& garbage);
  void found(Finding finding);
  void advance(std::uint64_t steps);

  const store::Keys& keys() const { return shared_connection_.store().keys(); }

  SharedConnection& shared_connection_;
  const CheckOptions& options_;
  CheckReport report_;
  std::vector<store::Suspect> suspects_;
  std::vector<Listed> listed_;
  bool has_stats_ = false;
  std::uint64_t done_ = 0, total_ = 0;
};

}  // namespace delayqueue
