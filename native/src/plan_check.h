// Every number and string of a plan that FlatBuffers' own verifier cannot judge.
#pragma once

#include "schema/plan_generated.h"

namespace malisdk {

// Afterwards every index, offset, size, rank, launch size and name of the plan may be used unchecked.
// Throws DAMAGED_FILE that names `file`, the entry and the value.
void check_plan(const plan::Plan& plan, const char* file);

}  // namespace malisdk
