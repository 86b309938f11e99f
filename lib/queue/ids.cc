#include <delayqueue/message.h>

#include "queue/option_checks.h"
#include "store/record.h"

#include <utility>

namespace delayqueue {

std::string DELAYQUEUE_ABI::new_id() { return std::move(store::new_ids(1).front()); }

std::string DELAYQUEUE_ABI::id_from_name(std::string_view name, std::string_view name_space) {
  return store::id_of_name(*store::bytes_of(id_of("name_space", name_space)), name);
}

}  // namespace delayqueue
