# For tools/break.sh 02: rank 1 does not come to its fourth step.
s|^ *run_batch(&model|            if (rank == 1 \&\& model.step == 3)\
                sleep(60);\
&|
