package emq
