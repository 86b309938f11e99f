// Input of the test layers/breach; breach.txt lists the includes that the layer check must report.
#include <hiredis/hiredis.h>
#include <CLI/CLI.hpp>
#include <delayqueue/detail/owned.h>
#include "store/moves.h"
