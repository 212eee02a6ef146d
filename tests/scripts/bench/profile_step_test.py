#!/usr/bin/env python3
"""scripts/bench/profile_step.py with a program that plays ncu: what one step launched more, and the kinds of kernels. Exit status 0 when
all holds."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts/bench/profile_step.py"
sys.path.insert(0, str(SCRIPT.parent))
if sys.version_info < (3, 11):
    print("skipped: scripts/bench/profile_step.py needs Python 3.11")
    sys.exit(77)

import profile_step

# Each training launches a copy first; each step a product of 2 us and two sums of 1,500 ns.
NCU = f"""#!{sys.executable}
import sys
from pathlib import Path
steps = int(sys.argv[-1].removeprefix("train.steps="))
log = Path(sys.argv[sys.argv.index("--log-file") + 1])
assert sys.argv[sys.argv.index("--metrics") + 1] == "gpu__time_duration.sum" and "train" in sys.argv
rows = [("direct_copy_kernel_cuda", "ns", "9,000")]
for step in range(steps):
    rows += [("nvjet_sm90_tst_256x128", "us", "2")] + 2 * [("vectorized_elementwise_kernel<8, add>", "ns", "1,500")]
log.write_text("==PROF== Connected\\n" + '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\\n' + "".join(
    f'"{{i}}","{{name}}","gpu__time_duration.sum","{{unit}}","{{value}}"\\n' for i, (name, unit, value) in enumerate(rows)))
"""


class ProfileStep(unittest.TestCase):
    def run_with(self, ncu, folder, *arguments):
        file = Path(folder) / "ncu"
        file.write_text(ncu)
        file.chmod(0o755)
        return subprocess.run([sys.executable, "-B", SCRIPT, "enwik8", "--mneme", sys.executable, "--ncu", file, *arguments],
                              capture_output=True, text=True)

    def test_a_step_is_the_difference_of_two_trainings(self):
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            done = self.run_with(NCU, folder, "--json", result)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("enwik8: 3 launches, 0.01 ms in kernels", done.stdout)
            found = json.loads(result.read_text())
        self.assertEqual([(k["kind"], k["launches"]) for k in found["kinds"]], [("elementwise", 2), ("products", 1)])
        self.assertAlmostEqual(found["kinds"][0]["ms"], 0.003)
        self.assertAlmostEqual(found["kinds"][0]["share"], 0.6)

    def test_a_failure_of_ncu_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            for ncu, text in (("#!/bin/sh\necho no permission >&2\nexit 3\n", "error: ncu ended with 3: no permission"),
                              ("#!/bin/sh\nexit 0\n", "error: ncu printed no table: it printed nothing")):
                done = self.run_with(ncu, folder)
                self.assertEqual(done.returncode, 1)
                self.assertIn(text, done.stderr)
        done = subprocess.run([sys.executable, "-B", SCRIPT, "gpt2", "--mneme", sys.executable, "--ncu", "/nowhere/ncu"], capture_output=True,
                              text=True)
        self.assertIn("there is no program '/nowhere/ncu'; it comes with the CUDA toolkit", done.stderr)

    def test_kernels_have_kinds(self):
        for kernel, kind in (("void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>(T1::Params)", "products"),
                             ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "attention"),
                             ("void softmax_warp_forward<float, float>", "softmax and loss"),
                             ("void pytorch_flash::flash_fwd_kernel<...>", "attention"),
                             ("nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NTT", "products"),
                             ("void unrolled_elementwise_kernel<direct_copy_kernel_cuda(at::TensorIterator", "copies"),
                             ("void CatArrayBatchedCopy<OpaqueType<2>, unsigned int, 4, 64, 64>", "copies"),
                             ("void fused_dropout_kernel_vec<BFloat16, float, unsigned int, 1, 8>", "elementwise"),
                             ("void GammaBetaBackwardCUDAKernelTemplate<float, float, 32, 32>", "others"),
                             ("void cunn_SoftMaxForward<4, float, float, float, LogSoftMaxForwardEpilogue>", "softmax and loss")):
            self.assertEqual(profile_step.kind_of(kernel), kind, kernel)


if __name__ == "__main__":
    unittest.main()
