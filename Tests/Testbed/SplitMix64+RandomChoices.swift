import Numbers

extension SplitMix64 {
    /// Makes the generator of one run. The same seed repeats the run.
    public init(simulationSeed: UInt64) { self.init(seed: simulationSeed &* 0x9E37_79B9_7F4A_7C15 &+ 1) }

    /// Returns a number in the range.
    public mutating func number(_ range: ClosedRange<Int>) -> Int {
        range.lowerBound + Int(next() % UInt64(range.count))
    }

    /// Returns true in `perMille` of a thousand cases.
    public mutating func chance(_ perMille: Int) -> Bool { number(0...999) < perMille }

    /// Returns a number in `0..<bound`.
    public mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

    /// Returns one of the choices.
    public mutating func pick<Element>(_ choices: [Element]) -> Element { choices[below(choices.count)] }
}
