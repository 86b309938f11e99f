// The table of queues in top: its columns, as many as fit, and its order.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "output/canvas.h"
#include "top/top_look.h"

namespace dqctl {

enum class Sort { name, pending, ready, unack, retry, dead, due, overdue, oldest, sent, delivered, acked, failed };

inline constexpr int kSorts = 13;
const char* name_of(Sort sort);

// By name: from a to z; by numbers: the largest first; the other way round if so asked. Equal ones by name.
void put_in_order(std::vector<QueueSnapshot>& queues, Sort sort, bool other_way);

// What is chosen for a width, so that names have room.
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

// 1,234 and 12.3k and 1.2M: at most five places.
std::string short_count(std::uint64_t count);

}  // namespace dqctl
