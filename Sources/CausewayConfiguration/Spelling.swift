/// Suggests the name that was probably meant: of a key, a variable, a command.
package enum Spelling {
    /// The most similar of `names`, if `name` is probably a misspelling of it.
    package static func nearest(to name: String, among names: [String]) -> String? {
        let candidates = names.map { (name: $0, distance: distance(name, $0)) }
        let best = candidates.min { ($0.distance, $0.name) < ($1.distance, $1.name) }
        return best.flatMap { $0.distance <= max(1, $0.name.count / 3) ? $0.name : nil }
    }

    /// How many insertions, deletions, replacements and exchanges of neighbours lead from one name to the other, in any case.
    package static func distance(_ one: String, _ other: String) -> Int {
        let (left, right) = (Array(one.lowercased()), Array(other.lowercased()))
        guard left.count <= 128, right.count <= 128 else { return .max }
        var before: [Int] = []
        var row = Array(0...right.count)
        for (leftIndex, character) in left.enumerated() {
            var next = [leftIndex + 1]
            for (rightIndex, other) in right.enumerated() {
                var cost = min(
                    row[rightIndex + 1] + 1,
                    next[rightIndex] + 1,
                    row[rightIndex] + (character == other ? 0 : 1)
                )
                if leftIndex > 0, rightIndex > 0, character == right[rightIndex - 1], left[leftIndex - 1] == other {
                    cost = min(cost, before[rightIndex - 1] + 1)
                }
                next.append(cost)
            }
            (before, row) = (row, next)
        }
        return row[right.count]
    }
}
