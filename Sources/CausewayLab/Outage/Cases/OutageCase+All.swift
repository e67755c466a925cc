extension OutageCase {
    /// The cases of all files, in the order in which they run.
    static let all =
        apnsCases + isolationCases + redisCases + kafkaCases + lateAndFutureCases + lifetimeCases + workerCases
}
