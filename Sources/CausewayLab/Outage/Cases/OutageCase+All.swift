extension OutageCase {
    /// Every case there is.
    static let all = ofAPNs + ofNeighbours + ofRedis + ofKafka + ofAges + ofWorkers
}
