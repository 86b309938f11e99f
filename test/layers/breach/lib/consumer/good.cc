#include "run/loop.h"
#include "store/moves.h"
