__attribute__((reqd_work_group_size(8, 4, 1)))
__kernel void gemm4x4(__global float* restrict o, const __global float* restrict a, const __global float* restrict w) {
  const int x = get_global_id(0), y = get_global_id(1);
  float4 c0 = 0.0f, c1 = 0.0f, c2 = 0.0f, c3 = 0.0f;
  for (int k = 0; k < 64; ++k) {
    float4 d = *(const __global float4*)(a + k * 3136 * 4 + x * 4);
    const __global float4* v = (const __global float4*)(w + y * 1024 + k * 16);
    c0 = mad((float4)(d.s0), v[0], c0);
    c1 = mad((float4)(d.s1), v[1], c1);
    c2 = mad((float4)(d.s2), v[2], c2);
    c3 = mad((float4)(d.s3), v[3], c3);
  }
  *(__global float4*)(o + y * 3136 * 4 + x * 4) = c0 + c1 + c2 + c3;
}
