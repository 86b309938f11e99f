// Input of the test layers/breach; breach.txt lists the includes that the layer check must report.
#include <delayqueue/detail/owned.h>
#include <hiredis/hiredis.h>
#include <CLI/CLI.hpp>
#include "store/moves.h"
