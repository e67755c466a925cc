extension OutageCase {
    /// All cases.
    static let all = ofAPNs + ofNeighbours + ofRedis + ofKafka + ofAges + ofLifetimes + ofWorkers
}
