__attribute__((reqd_work_group_size(4, 4, 4)))
__kernel void nested(__global float* restrict o, const __global float* restrict a, const __global float* restrict w, const int rows) {
  const int x = get_global_id(0);
  float4 c = 0.0f;
  for (int k = 0; k < rows; ++k) {
    const float s = a[k];
    for (int i = x; i < rows; ++i)
      c = mad((float4)(a[k * rows + i]), *(const __global float4*)(w + 4 * i), c);
    c *= s;
  }
  *(__global float4*)(o + 4 * x) = c;
}
