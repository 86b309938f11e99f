#include <hiredis/hiredis.h>
#include <CLI/CLI.hpp>
#include "store/moves.h"
