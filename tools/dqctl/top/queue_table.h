// The table of queues in dqctl top: chooses the columns that fit, and sorts the rows.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "output/canvas.h"
#include "top/poller.h"

namespace dqctl {

enum class Sort { name, pending, ready, unack, retry, dead, due, overdue, oldest, sent, delivered, acked, failed };

inline constexpr int kSorts = 13;
const char* name_of(Sort sort);

// Sorts by name from a to z, or by a number from large to small; `other_way` reverses the order. Equal numbers are
// sorted by name.
void put_in_order(std::vector<QueueSnapshot>& queues, Sort sort, bool other_way);

// The columns for a screen width. Reserves room for the names of queues, then adds columns by importance.
class QueueTable {
 public:
  QueueTable(std::size_t width, const std::vector<QueueSnapshot>& queues);

  bool shows(Sort sort) const;
  void write_titles(Line& line, Sort sort) const;
  void write(Line& line, const QueueSnapshot& queue, bool selected) const;

 private:
  struct Shown {
    Sort column;
    std::size_t width;
  };

  std::vector<Shown> shown_{};
  std::size_t name_width_ = 0;
  std::size_t history_width_ = 0;
  bool wide_ = false;
};

// 1,234, 12.3k, 1.2M: at most five characters.
std::string short_count(std::uint64_t count);

}  // namespace dqctl
