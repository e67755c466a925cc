/// Finds the name of a key, variable or command that the user probably meant.
package enum NearestName {
    /// Returns the name in `names` that is the most similar to `name`. Returns nil if they differ in more than one
    /// letter and in more than a third of the letters.
    package static func find(nearestTo name: String, among names: [String]) -> String? {
        let candidates = names.map { (name: $0, distance: editDistance(name, $0)) }
        let nearestCandidate = candidates.min { ($0.distance, $0.name) < ($1.distance, $1.name) }
        return nearestCandidate.flatMap { $0.distance <= max(1, $0.name.count / 3) ? $0.name : nil }
    }

    /// Returns the edit distance of two names: the number of insertions, deletions, replacements and swaps of
    /// neighbouring letters. Ignores case. Returns `Int.max` if a name has more than 128 characters, because the cost
    /// grows with the product of both lengths.
    package static func editDistance(_ firstName: String, _ secondName: String) -> Int {
        let (left, right) = (Array(firstName.lowercased()), Array(secondName.lowercased()))
        guard left.count <= 128, right.count <= 128 else { return .max }
        var beforePreviousRow: [Int] = []
        var previousRow = Array(0...right.count)
        for (leftIndex, character) in left.enumerated() {
            var currentRow = [leftIndex + 1]
            for (rightIndex, rightCharacter) in right.enumerated() {
                var cost = min(
                    previousRow[rightIndex + 1] + 1,
                    currentRow[rightIndex] + 1,
                    previousRow[rightIndex] + (character == rightCharacter ? 0 : 1)
                )
                if leftIndex > 0, rightIndex > 0, character == right[rightIndex - 1],
                    left[leftIndex - 1] == rightCharacter
                {
                    cost = min(cost, beforePreviousRow[rightIndex - 1] + 1)
                }
                currentRow.append(cost)
            }
            (beforePreviousRow, previousRow) = (previousRow, currentRow)
        }
        return previousRow[right.count]
    }
}
