"""What a release contains besides the programs: bills of materials, compose.yaml, the pages of Documentation."""
