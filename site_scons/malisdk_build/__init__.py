"""What the SConstruct is made of. Nothing here imports the pipeline: SCons runs it by command line only."""
